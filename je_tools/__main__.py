"""`python -m je_tools`: the command line."""

from __future__ import annotations

from je_tools.commands.start import main

# A worker process may import this module again.
if __name__ == "__main__":
    main()
