package main

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
)

// A serverRecord is what the storage has about an upstream server.
type serverRecord struct{ Enabled, Quarantined bool }

// A toolRecord is what the storage has about a tool. Approval is "", "approved", "pending" or "changed".
type toolRecord struct {
	Server, Name, Description string
	Schema                    json.RawMessage
	Denied, Disabled          bool
	Approval                  string
	// Damaged says that the record of its approval cannot be read.
	Damaged bool
}

func (r toolRecord) qualified() string { return r.Server + ":" + r.Name }

// A compactEntry is how the proxy lists a tool in an answer: without its schema, which an agent reads when it calls.
type compactEntry struct {
	Name        string  `json:"name"`
	Server      string  `json:"server"`
	Description *string `json:"description,omitempty"`
	Status      string  `json:"status,omitempty"`
}

// A store keeps servers and tools. That of a real proxy is a database.
type store struct {
	mutex   sync.Mutex
	servers map[string]serverRecord
	tools   map[string]toolRecord
}

func (s *store) putServer(name string, record serverRecord) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.servers == nil {
		s.servers, s.tools = map[string]serverRecord{}, map[string]toolRecord{}
	}
	s.servers[name] = record
}

func (s *store) putTool(record toolRecord) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.tools[record.qualified()] = record
}

func (s *store) tool(name string) (toolRecord, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	found, is := s.tools[name]
	return found, is
}

// each visits every server with its tools.
func (s *store) each(visit func(server string, record serverRecord, tools []toolRecord)) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for name, record := range s.servers {
		var tools []toolRecord
		for _, tool := range s.tools {
			if tool.Server == name {
				tools = append(tools, tool)
			}
		}
		visit(name, record, tools)
	}
}

// search is the proxy's own: it returns those of some names whose texts have a word of the query, most words first.
func (s *store) search(query string, names []string) []string {
	count := func(name string) int {
		record, _ := s.tool(name)
		text, found := strings.ToLower(record.qualified()+" "+record.Description), 0
		for _, word := range strings.Fields(strings.ToLower(query)) {
			if strings.Contains(text, word) {
				found++
			}
		}
		return found
	}
	counts := map[string]int{}
	for _, name := range names {
		counts[name] = count(name)
	}
	found := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return counts[name] == 0 })
	slices.SortStableFunc(found, func(one, other string) int { return counts[other] - counts[one] })
	return found
}
