package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	callabilityv1 "github.com/callability/callability/clients/go/remote/v1"
)

// A golden vector: a request, and either what its reply contains or how it is refused.
type vector struct {
	Name    string
	Call    string
	Request json.RawMessage
	Reply   any
	Error   *refusal
}

type refusal struct {
	Code   codes.Code
	Reason string
}

func replay(ctx context.Context, connection grpc.ClientConnInterface, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var vectors []vector
	if err := json.Unmarshal(text, &vectors); err != nil {
		return err
	}
	var failures []error
	for _, each := range vectors {
		if err := each.check(ctx, connection); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", each.Name, err))
		}
	}
	fmt.Printf("%d of %d vectors are answered as they say\n", len(vectors)-len(failures), len(vectors))
	return errors.Join(failures...)
}

func (v vector) check(ctx context.Context, connection grpc.ClientConnInterface) error {
	service := callabilityv1.File_callability_v1_callability_service_proto.Services().ByName("CallabilityService")
	method := service.Methods().ByName(protoreflect.Name(v.Call))
	if method == nil {
		return fmt.Errorf("there is no call %s", v.Call)
	}
	request, reply := dynamicpb.NewMessage(method.Input()), dynamicpb.NewMessage(method.Output())
	if err := protojson.Unmarshal(v.Request, request); err != nil {
		return err
	}
	err := connection.Invoke(ctx, fmt.Sprintf("/%s/%s", service.FullName(), v.Call), request, reply)
	if v.Error != nil {
		return v.Error.check(err)
	}
	if err != nil {
		return err
	}
	return checkReply(reply, v.Reply)
}

func (r refusal) check(err error) error {
	refused, ok := status.FromError(err)
	if ok && refused.Code() == r.Code {
		for _, detail := range refused.Details() {
			if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetReason() == r.Reason {
				return nil
			}
		}
	}
	return fmt.Errorf("wanted is a refusal with %s and %s, found %v", r.Code, r.Reason, err)
}

func checkReply(reply proto.Message, wanted any) error {
	text, err := protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(reply)
	if err != nil {
		return err
	}
	var found any
	if err := json.Unmarshal(text, &found); err != nil {
		return err
	}
	if !contains(found, wanted) {
		return fmt.Errorf("wanted is %v, found %s", wanted, text)
	}
	return nil
}

// Fields that are left out of what is wanted are not compared; lists are compared whole.
func contains(found, wanted any) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		object, ok := found.(map[string]any)
		for key, value := range wanted {
			ok = ok && contains(object[key], value)
		}
		return ok
	case []any:
		list, ok := found.([]any)
		ok = ok && len(list) == len(wanted)
		for index := 0; ok && index < len(wanted); index++ {
			ok = contains(list[index], wanted[index])
		}
		return ok
	default:
		return reflect.DeepEqual(found, wanted)
	}
}
