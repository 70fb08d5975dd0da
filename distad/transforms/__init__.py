"""Program transformations: stage, jvp, linearize, transpose. Each is a trace or a walk over a jaxpr."""
