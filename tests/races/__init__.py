import pytest

pytest.register_assert_rewrite("tests.races.served", "tests.races.wire")
