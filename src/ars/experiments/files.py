"""Names of a run folder's files; ars.certification.run_folder has them all."""

from ars.certification.run_folder import ENVIRONMENT, RECIPE

__all__ = ["ENVIRONMENT", "RECIPE"]
