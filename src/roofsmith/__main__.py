"""`python -m roofsmith`: the command line, where the script isn't on PATH."""

from roofsmith.cli import main

main()
