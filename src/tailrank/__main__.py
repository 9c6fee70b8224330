"""`python -m tailrank`: the command line."""

from __future__ import annotations

from tailrank.cli import main

if __name__ == "__main__":
    main(prog_name="tailrank")
