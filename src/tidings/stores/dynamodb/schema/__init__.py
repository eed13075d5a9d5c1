# SPDX-License-Identifier: Apache-2.0
"""Creates and checks the declared tables, and writes CloudFormation and Terraform files."""
