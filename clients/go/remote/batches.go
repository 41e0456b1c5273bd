package remote

import (
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	v1 "github.com/callability/callability/clients/go/remote/v1"
)

const (
	maxTools   = 20_000
	maxServers = 2_000
	// maxBytes are those of a request. A service takes 1 MiB more: nobody has to count to the byte.
	maxBytes = 3 << 20
	// around are the bytes around an item of a request, and some room.
	around        = 16
	maxNameBytes  = 512
	maxFactsBytes = 65_536
)

// A batching splits a request. The last of its requests is being filled: it has so many tools and bytes.
type batching struct {
	agent       *v1.Agent
	requests    []*v1.CheckToolsRequest
	group       *v1.ServerTools
	tools, size int
}

// batches splits a request into requests within the limits of the service, of which there is at least one.
func batches(request *v1.CheckToolsRequest) []*v1.CheckToolsRequest {
	b := batching{agent: request.GetAgent()}
	b.begin()
	for _, server := range request.GetServers() {
		b.group = nil
		above := &v1.ServerTools{Name: server.GetName(), Facts: server.GetFacts()}
		own := proto.Size(above) + around
		for _, tool := range server.GetTools() {
			b.add(above, own, requested(tool))
		}
	}
	return b.requests
}

func (b *batching) begin() {
	request := &v1.CheckToolsRequest{Agent: b.agent}
	b.requests, b.group, b.tools, b.size = append(b.requests, request), nil, 0, proto.Size(request)
}

// add adds a tool of a server, of which own bytes are around its tools. The first tool of a request always fits.
func (b *batching) add(server *v1.ServerTools, own int, tool *v1.Tool) {
	more := proto.Size(tool) + around
	if b.tools > 0 && b.isFull(own, more) {
		b.begin()
	}
	request := b.requests[len(b.requests)-1]
	if b.group == nil {
		b.group = &v1.ServerTools{Name: server.GetName(), Facts: server.GetFacts()}
		request.Servers = append(request.Servers, b.group)
		b.size += own
	}
	b.group.Tools = append(b.group.Tools, tool)
	b.tools++
	b.size += more
}

func (b *batching) isFull(own, more int) bool {
	if b.group == nil {
		more += own
		if len(b.requests[len(b.requests)-1].GetServers()) == maxServers {
			return true
		}
	}
	return b.tools == maxTools || b.size+more > maxBytes
}

// requested is the tool, or in place of one that is too large for any request a name that is too long: it then is an error of
// its item, and the others are decided.
func requested(tool *v1.Tool) *v1.Tool {
	name := tool.GetName()
	if len(name) <= maxNameBytes && utf8.ValidString(name) && proto.Size(tool.GetFacts()) <= maxFactsBytes {
		return tool
	}
	return &v1.Tool{Name: strings.Repeat("0", maxNameBytes+1)}
}
