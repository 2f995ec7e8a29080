"""What the command ``nvdsl`` does; `nvdsl_command` has what it takes."""


class Refused(ValueError):
    """Input of the command that makes no sense. The message is one line for the user."""
