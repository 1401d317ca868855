"""The memory itself: blocks, their rendering, and the frozen snapshot of each session.

Everything here is synchronous. Paths and the present time come in as arguments; nothing here reads
the environment, knows HTTP, or imports the sidecar.
"""
