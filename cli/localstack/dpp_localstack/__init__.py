"""The part of the local stack that lives inside LocalStack's own virtual environment.

Nothing here may import `dpp_cli` or `dpp`: LocalStack's dependencies are locked apart from ours.
"""
