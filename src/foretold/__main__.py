"""`python -m foretold` is the command `foretold`."""

from foretold.cli import main

if __name__ == "__main__":
    main()
