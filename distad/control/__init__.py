"""Programs inside programs: jit, scan, custom rules. Their rules are made from the transformations of whole jaxprs."""
