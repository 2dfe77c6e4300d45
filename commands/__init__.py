"""The command line: options in, a library call, a sink out."""

import os

# numpy loads OpenBLAS, which nothing here uses. Without this setting OpenBLAS starts a thread for
# each core as it loads, which takes longer than loading the rest of numpy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
