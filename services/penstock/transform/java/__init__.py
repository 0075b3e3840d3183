"""What Java does to numbers, times and patterns, as Spark and Python can mean the same."""
