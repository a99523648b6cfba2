"""The one exception that a user is meant to read."""


class LatentTrackError(ValueError):
    """A problem that the caller can mend.

    Its message is one sentence that names the culprit (a column, an argument, a file) and says what to do.
    The command line prints it without a traceback and exits with code 2.
    """
