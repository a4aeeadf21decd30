# SPDX-License-Identifier: Apache-2.0
"""TFRecords: schemas, reading, order, checks, and masks made while reading."""
