def add_parser(verbs): pass
