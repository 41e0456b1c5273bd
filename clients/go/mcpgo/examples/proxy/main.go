// Proxy is a small MCP proxy: servers over stdio and HTTP behind it, agents over stdio or HTTP before it. Package
// callability decides what can be called; all of that is in gateway.go.
//
//	go run . -config proxy.json                          over stdio, for the agent that starts it
//	go run . -config proxy.json -http 127.0.0.1:8080     over HTTP, for agents with a token of the config
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

var implementation = &mcp.Implementation{Name: "example-proxy", Version: "0"}

func main() {
	path := flag.String("config", "proxy.json", "the config")
	address := flag.String("http", "", "serve agents over HTTP at this address; without it, over stdio")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *path, *address); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, path, address string) error {
	config, err := readConfig(path)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	servers := connect(ctx, config.Servers, log)
	defer servers.close()
	gateway, err := newGateway(ctx, config, servers, log)
	if err != nil {
		return err
	}
	server := mcp.NewServer(implementation, nil)
	gateway.AddTools(server)
	if address == "" {
		return server.Run(ctx, &mcp.StdioTransport{})
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "listening on", listener.Addr())
	return serve(ctx, listener, config.handler(server))
}

// handler serves agents that have a token of the config.
func (c *config) handler(server *mcp.Server) http.Handler {
	streams := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		if _, known := c.agentOf(request.Header); !known {
			writer.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(writer, "found no token of an agent", http.StatusUnauthorized)
			return
		}
		streams.ServeHTTP(writer, request)
	})
}

func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	err := errors.Join(server.Shutdown(late), server.Close())
	<-ended
	return err
}
