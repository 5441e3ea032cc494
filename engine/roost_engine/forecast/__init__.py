"""When waiting jobs will start: the queue as it is, played forward with drawn run times.

The package reads an engine and changes nothing in it. It neither decides nor draws by itself.
"""
