"""Tests in a real browser: JupyterLab as a learner sees it."""
