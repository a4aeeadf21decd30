# SPDX-License-Identifier: Apache-2.0
"""Tokenization: text to pieces and ids, with SentencePiece or WordPiece."""
