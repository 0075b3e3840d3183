"""Control streams of tasks and monitors."""
