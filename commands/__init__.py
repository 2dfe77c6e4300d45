"""The command line: options in, a library call, a sink out."""

import os

# numpy's library of linear algebra, of which nothing here makes use, would else start a thread for
# each core when it is loaded, which takes longer than all the rest of numpy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
