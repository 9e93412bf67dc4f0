"""Suites that repeat the experiments of the papers. benchmarks/run_papers.py runs them."""
