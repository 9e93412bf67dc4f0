# Nothing for Python: other compiled modules move messages with it, see moving.pxd.
