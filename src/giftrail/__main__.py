"""`python -m giftrail` is `giftrail`."""

from giftrail import cli

cli.main()
