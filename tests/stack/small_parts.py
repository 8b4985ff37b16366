"""What a part may do at its worst: `python small_parts.py first | family | stubborn | outlives | deaf`.

`family` and `outlives` have a child in their process group and one outside of it; `stubborn` and `deaf`
ignore what asks them to stop.
"""

import signal
import subprocess
import sys
import time

if sys.argv[1] in ("family", "outlives"):
    child = [sys.executable, __file__, "child"]
    subprocess.Popen(child)
    subprocess.Popen(child, start_new_session=True)
elif sys.argv[1] in ("stubborn", "deaf"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(600)
