"""`python -m latenttrack` is the `latenttrack` command."""

from latenttrack.cli.main import main

main()
