"""Whole runs: from a job file and a stack to a result."""
