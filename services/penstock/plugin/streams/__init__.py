"""The control streams of tasks and monitors, and the rules that they are checked by."""
