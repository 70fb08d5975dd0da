"""Values, primitives, traces and the one intermediate representation.

A `Primitive` is a record of rules. Calling it asks the current `Trace` what to do: compute on blocks (eager), write an
equation (stage), carry a tangent along (jvp). A trace has a parent, and rules run under the parent, so transformations
nest by themselves. Nothing here knows any op or communicates.
"""
