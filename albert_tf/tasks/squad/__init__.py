# SPDX-License-Identifier: Apache-2.0
"""SQuAD: questions, alignment, windows, answers and scores."""
