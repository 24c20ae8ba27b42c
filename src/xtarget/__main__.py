"""`python -m xtarget`."""

import os
import sys

# `-m` has put the current folder in front of the search path, where a json.py is not
# for us; xtarget itself may be there
if (
    not sys.flags.safe_path
    and sys.path[0] in ("", os.getcwd())
    and not os.path.isdir(os.path.join(sys.path[0], "xtarget"))
):
    del sys.path[0]

from ._cli.main import main

if __name__ == "__main__":
    main(prog_name="python -m xtarget")
