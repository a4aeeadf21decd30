# SPDX-License-Identifier: Apache-2.0
"""Devices, the training loop, evaluation and what a run leaves in its directory."""
