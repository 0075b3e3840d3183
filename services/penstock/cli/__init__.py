"""The `penstock` command: one file per verb, `__main__` only picks one.

Exit codes: 0 done · 1 the work failed · 2 the configuration or the command line is wrong · 3 there
is something to do (`plan --exit-code`) · 130 interrupted · 141 nobody reads what is printed.
"""
