package callability

// The messages of callability.bundle.v1, as they are read.
type (
	payload struct {
		revision  string
		semantics int32
		sequence  uint64
		actions   []action
		ruleSets  []ruleSet
	}
	action struct {
		name   string
		owner  int32
		fact   string
		phrase string
		labels bool
	}
	ruleSet struct {
		question     string
		facts        []fact
		statuses     []status
		undetermined int32
		open         int32
		parts        []part
		rules        []rule
		laws         []law
		textNames    []string
		words        []statusWords
		axes         []axis
		verdicts     []verdict
		diagram      diagram
		unread       diagram
		unreadStarts []unreadStart
		listedFacts  []int32
		counts       counts
	}
	fact struct {
		name         string
		kind         int32
		subject      int32
		key          string
		values       []string
		defaultValue int32
		asserted     bool
		alwaysStays  bool
		changedBy    int32
		action       string
		groups       [][]string
		classes      [][]int32
		anyValue     bool
	}
	status struct {
		name         string
		number       int32
		liftedBy     int32
		retry        int32
		failed       bool
		entry        int32
		toolsChanged int32
	}
	part struct {
		kind     int32
		fact     int32
		readings []int32
		parts    []int32
	}
	rule struct {
		id        string
		condition int32
		status    int32
		words     []string
	}
	counts struct {
		combinations, regions, confirmed string
	}
	law struct {
		condition int32
		statuses  []int32
	}
	statusWords struct {
		status int32
		texts  []string
	}
	axis struct {
		facts    []int32
		readings []int32
	}
	verdict struct {
		status       int32
		rule         int32
		undetermined bool
		withhold     bool
	}
	diagram struct {
		places   []int32
		children []int32
	}
	unreadStart struct {
		rule, fact, start int32
	}
)

// absent is the value of an optional place that is not there.
const absent int32 = -1
