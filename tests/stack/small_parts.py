"""What a part may do at its worst: `python small_parts.py first | family | stubborn`.

`family` has a child in its process group and one outside of it; `stubborn` ignores what asks it to stop.
"""

import signal
import subprocess
import sys
import time

if sys.argv[1] == "family":
    child = [sys.executable, __file__, "child"]
    subprocess.Popen(child)
    subprocess.Popen(child, start_new_session=True)
elif sys.argv[1] == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(600)
