"""Settings for all tests."""

from hypothesis import settings

# Busy machines are slow now and then; that is not what these tests are about.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
