"""`python -m varsim` is the command `varsim`."""

from varsim.cli.app import main

if __name__ == "__main__":
    main()
