// A client of callability in Go, generated from the .proto files alone.
//
//	go run . ADDRESS                 asks about a few tools, and prints a line for each
//	go run . ADDRESS calls.json      replays golden vectors, and prints those that are answered otherwise
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	callabilityv1 "callability/v1"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 || len(os.Args) > 3 {
		log.Fatal("usage: go run . ADDRESS [calls.json]")
	}
	connection, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(), // The service is on loopback or a Unix socket, where no proxy of the environment leads.
		// The answer about 20,000 tools can have more than the 4 MiB that gRPC accepts by default.
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if len(os.Args) == 3 {
		err = replay(ctx, connection, os.Args[2])
	} else {
		err = checkTools(ctx, connection, os.Stdout)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// What this client knows of its tools. A fact that it does not know is left out.
//
// The groups `Agent`, `Labels` and `Annotations` are always sent, even if they are empty. A group that is left out is
// unknown as a whole, and each tool that reaches a rule about it is held back.
func inventory() *callabilityv1.CheckToolsRequest {
	yes, no := true, false
	noRecord := &callabilityv1.Approval{}
	readOnly := &callabilityv1.Annotations{ReadOnly: &yes}
	tool := func(name string, denied bool, approval *callabilityv1.Approval, said *callabilityv1.Annotations) *callabilityv1.Tool {
		return &callabilityv1.Tool{Name: name, Facts: &callabilityv1.ToolFacts{
			ConfigDenied: &denied,
			Approval:     approval,
			Annotations:  said,
			Labels:       &callabilityv1.Labels{},
		}}
	}
	switchedOff := &callabilityv1.Approval{Record: &callabilityv1.ApprovalRecord{
		Disabled: &yes,
		Status:   callabilityv1.ApprovalStatus_APPROVAL_STATUS_APPROVED.Enum(),
	}}
	production := &callabilityv1.Labels{Values: map[string]string{"environment": "production"}}
	return &callabilityv1.CheckToolsRequest{
		Agent: &callabilityv1.Agent{Name: "assistant"},
		Servers: []*callabilityv1.ServerTools{
			{
				Name:  "git",
				Facts: &callabilityv1.ServerFacts{Enabled: &yes, Quarantined: &no, Labels: production},
				Tools: []*callabilityv1.Tool{
					tool("git_status", false, noRecord, readOnly),
					tool("git_reset", true, noRecord, &callabilityv1.Annotations{}),
					tool("git_push", false, switchedOff, &callabilityv1.Annotations{}),
					tool("git_log", false, nil, readOnly),
				},
			},
			{
				Name:  "time",
				Facts: &callabilityv1.ServerFacts{Enabled: &no, Quarantined: &no, Labels: &callabilityv1.Labels{}},
				Tools: []*callabilityv1.Tool{tool("now", false, noRecord, &callabilityv1.Annotations{})},
			},
		},
	}
}

func checkTools(ctx context.Context, connection *grpc.ClientConn, out io.Writer) error {
	asked := inventory()
	answer, err := callabilityv1.NewCallabilityServiceClient(connection).CheckTools(ctx, asked)
	if err != nil {
		return err
	}
	for s, server := range asked.GetServers() {
		for t, tool := range server.GetTools() {
			fmt.Fprintf(out, "%s:%s %s\n", server.GetName(), tool.GetName(), told(answer.GetServers()[s].GetResults()[t]))
		}
	}
	return nil
}

// An item that is an error is held back, like a status that this client does not know.
func told(result *callabilityv1.ToolResult) string {
	if result.GetError() != nil {
		return result.GetError().GetMessage()
	}
	verdict := result.GetVerdict()
	line := fmt.Sprintf("%s %s %s by %s", verdict.GetStatus(), verdict.GetLiftedBy(), verdict.GetRetry(), verdict.GetRule())
	if unread := verdict.GetUnread(); len(unread) > 0 {
		line += ", unread: " + strings.Join(unread, ", ")
	}
	return line
}
