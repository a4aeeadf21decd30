# SPDX-License-Identifier: Apache-2.0
"""Devices, the training loop, evaluation and the files of a run."""
