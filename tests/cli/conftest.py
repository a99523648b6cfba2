"""Shared by the tests of the commands."""

import pytest

from latenttrack.cli import fit, forecast


@pytest.fixture(scope="module", autouse=True)
def user_cache_untouched():
    """Commands that tests run in their own process leave the user's cache of compiled programs alone."""
    with pytest.MonkeyPatch.context() as patch:
        for command in (fit, forecast):
            patch.setattr(command, "cache_compiled_programs", lambda: None)
        yield
