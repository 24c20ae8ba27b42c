"""`python -m xtarget`."""

from ._cli import main

if __name__ == "__main__":
    main(prog_name="python -m xtarget")
