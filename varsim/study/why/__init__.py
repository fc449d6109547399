"""Why a run is as slow as it is: its critical path, its resources, and what others would make."""
