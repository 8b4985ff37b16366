"""Whether this process is about to stop, so that what is new goes to others."""

import threading

draining = threading.Event()
"""It is not ready any more, and still answers everything."""
refusing = threading.Event()
"""It takes no new connections: endless answers end, and their clients go on elsewhere."""
