package remote_test

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// A relay stands between a client and a service, as a load balancer does.
type relay struct {
	listener net.Listener
	service  string
	mutex    sync.Mutex
	flows    []*flow
}

// A flow is a connection through a relay. If it is forgotten, it stays open, and nothing passes it.
type flow struct {
	client, service net.Conn
	isForgotten     atomic.Bool
}

func relayTo(t *testing.T, service string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: listener, service: service}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			r.begin(client)
		}
	}()
	t.Cleanup(func() {
		r.close()
		<-ended
	})
	return r
}

// close ends every flow, and refuses others.
func (r *relay) close() {
	_ = r.listener.Close()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, each := range r.flows {
		_, _ = each.client.Close(), each.service.Close()
	}
}

func (r *relay) address() string { return r.listener.Addr().String() }

func (r *relay) begin(client net.Conn) {
	service, err := net.Dial("tcp", r.service)
	if err != nil {
		_ = client.Close()
		return
	}
	f := &flow{client: client, service: service}
	r.mutex.Lock()
	r.flows = append(r.flows, f)
	r.mutex.Unlock()
	go f.pass(client, service)
	go f.pass(service, client)
}

// forget makes every flow of this moment a silent one.
func (r *relay) forget() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, each := range r.flows {
		each.isForgotten.Store(true)
	}
}

func (f *flow) pass(from, to net.Conn) {
	_, _ = io.Copy(dropping{f, to}, from)
	if !f.isForgotten.Load() {
		_ = to.Close()
	}
}

type dropping struct {
	*flow
	to net.Conn
}

func (d dropping) Write(data []byte) (int, error) {
	if d.isForgotten.Load() {
		return len(data), nil
	}
	return d.to.Write(data)
}
