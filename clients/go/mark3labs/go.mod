module github.com/callability/callability/clients/go/mark3labs

go 1.25.5

require github.com/callability/callability/clients/go v0.0.0

require github.com/mark3labs/mcp-go v1.2.1 // indirect

replace github.com/callability/callability/clients/go => ..
