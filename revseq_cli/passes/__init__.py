"""Passes over data: jobs, plans, engines, and the work on each block. It imports all wings but report and commands."""
