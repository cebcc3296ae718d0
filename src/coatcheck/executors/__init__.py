"""Tools whose work another engine does: `Jobs`, and `HttpJobs` for job APIs over HTTP."""

from coatcheck.executors.fields import Fields
from coatcheck.executors.http_jobs import HttpJobs, Routes
from coatcheck.executors.jobs import Jobs
from coatcheck.executors.pace import Pace

__all__ = ["Fields", "HttpJobs", "Jobs", "Pace", "Routes"]
