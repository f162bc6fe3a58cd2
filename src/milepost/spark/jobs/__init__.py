"""Bulk jobs over logs: tasks that finish in Arrow inside the worker and return a summary."""
