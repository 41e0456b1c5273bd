module github.com/callability/callability/clients/go

go 1.24
