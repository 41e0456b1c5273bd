{{- define "callability.name" -}}
{{- if contains "callability" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-callability" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "callability.selector" -}}
app.kubernetes.io/name: callability
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "callability.labels" -}}
{{ include "callability.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "callability.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* A ConfigMap cannot know at run time what is missing, so it is said here. */}}
{{- define "callability.checked" -}}
{{- $values := .Values }}
{{- if not (or $values.insecure $values.sidecar.enabled) }}
{{- if not $values.tls.secret }}{{ fail "tls.secret is missing: a Secret with tls.crt and tls.key. Without TLS and callers, set insecure: true" }}{{ end }}
{{- if not (or $values.callers.secret $values.tls.clientAuthoritySecret) }}{{ fail "callers.secret is missing: a Secret with callers.yaml. Or give tls.clientAuthoritySecret, or set insecure: true" }}{{ end }}
{{- end }}
{{- if and $values.tls.clientAuthoritySecret (not $values.tls.probeSecret) }}{{ fail "tls.probeSecret is missing: with tls.clientAuthoritySecret, the probes need a certificate too" }}{{ end }}
{{- if and $values.tls.clientAuthoritySecret (not $values.tls.secret) }}{{ fail "tls.clientAuthoritySecret needs tls.secret" }}{{ end }}
{{- if and $values.sidecar.enabled (not $values.sidecar.proxy.name) }}{{ fail "sidecar.proxy is missing: the container of the proxy" }}{{ end }}
{{- if and $values.sidecar.enabled (gt (int $values.workers) 1) }}{{ fail "workers must be 1 in a sidecar: a Unix socket has one process" }}{{ end }}
{{- /* Ports, volumes and Services follow these values, and would not follow a setting. */}}
{{- $own := dict "address" "service.port" "socket_mode" "sidecar" "metrics_address" "metrics.port" "insecure_metrics" "metrics" "insecure_listen" "insecure" "workers" "workers" "max_connection_age" "maxConnectionAge" "tls_certificate" "tls.secret" "tls_key" "tls.secret" "tls_client_ca" "tls.clientAuthoritySecret" "callers" "callers.secret" "policy" "policy.source" "bundle_key" "policy.bundle.keys" "records" "records.enabled" "record_level" "records.level" "records_mib" "records.mib" "records_days" "records.days" }}
{{- range $name, $value := $own }}
{{- if hasKey $values.settings $name }}{{ fail (printf "settings.%s is set by the chart: give the value %s" $name $value) }}{{ end }}
{{- end }}
{{- if eq $values.policy.source "configMap" }}
{{- if eq (empty $values.policy.files) (empty $values.policy.existing) }}{{ fail "policy.source configMap needs policy.files or policy.existing, and not both" }}{{ end }}
{{- end }}
{{- if eq $values.policy.source "gitSync" }}
{{- if not (and $values.policy.gitSync.image $values.policy.gitSync.repository) }}{{ fail "policy.source gitSync needs policy.gitSync.image and policy.gitSync.repository" }}{{ end }}
{{- end }}
{{- if eq $values.policy.source "bundle" }}
{{- $bundle := $values.policy.bundle }}
{{- $given := 0 }}
{{- range list $bundle.secret $bundle.configMap $bundle.volume }}{{ if . }}{{ $given = add1 $given }}{{ end }}{{ end }}
{{- if ne (int $given) 1 }}{{ fail "policy.source bundle needs one of policy.bundle.secret, policy.bundle.configMap and policy.bundle.volume" }}{{ end }}
{{- $keys := $bundle.keys }}
{{- if and $keys.secret $keys.configMap }}{{ fail "policy.bundle.keys are in a secret or in a configMap, and not in both" }}{{ end }}
{{- if ne (empty (or $keys.secret $keys.configMap)) (empty $keys.ids) }}{{ fail "policy.bundle.keys needs ids, and a secret or a configMap that holds KEY_ID.pem for each of them" }}{{ end }}
{{- end }}
{{- end }}

{{- define "callability.settings" -}}
{{- $values := .Values }}
{{- $settings := dict "metrics_address" (printf "0.0.0.0:%d" (int $values.metrics.port)) "insecure_metrics" true "max_connection_age" $values.maxConnectionAge }}
{{- if $values.sidecar.enabled }}
{{- $settings = merge (dict "address" "unix:/run/callability/callability.sock" "socket_mode" "660") (omit $settings "max_connection_age") }}
{{- else }}
{{- $settings = merge (dict "address" (printf "0.0.0.0:%d" (int $values.service.port)) "workers" $values.workers) $settings }}
{{- end }}
{{- if $values.insecure }}{{ $_ := set $settings "insecure_listen" true }}{{ end }}
{{- if and $values.tls.secret (not $values.sidecar.enabled) }}
{{- $settings = merge $settings (dict "tls_certificate" "/etc/callability/tls/tls.crt" "tls_key" "/etc/callability/tls/tls.key") }}
{{- end }}
{{- if and $values.tls.clientAuthoritySecret (not $values.sidecar.enabled) }}{{ $_ := set $settings "tls_client_ca" "/etc/callability/authority/ca.crt" }}{{ end }}
{{- if and $values.callers.secret (not $values.sidecar.enabled) }}{{ $_ := set $settings "callers" "/etc/callability/callers/callers.yaml" }}{{ end }}
{{- if eq $values.policy.source "configMap" }}{{ $_ := set $settings "policy" "/etc/callability/policy" }}{{ end }}
{{- if eq $values.policy.source "gitSync" }}{{ $_ := set $settings "policy" (printf "/policy/current/%s" $values.policy.gitSync.directory | trimSuffix "/") }}{{ end }}
{{- if eq $values.policy.source "bundle" }}
{{- $_ := set $settings "policy" (printf "/etc/callability/policy/%s" $values.policy.bundle.file) }}
{{- $keys := list }}
{{- range $values.policy.bundle.keys.ids }}{{ $keys = append $keys (printf "%s=/etc/callability/keys/%s.pem" . .) }}{{ end }}
{{- if $keys }}{{ $_ := set $settings "bundle_key" (join "," $keys) }}{{ end }}
{{- end }}
{{- if $values.records.enabled }}
{{- $settings = merge $settings (dict "records" "/records/callability" "record_level" $values.records.level "records_mib" $values.records.mib "records_days" $values.records.days) }}
{{- end }}
{{- toYaml (merge (deepCopy $values.settings) $settings) }}
{{- end }}

{{- define "callability.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "callability.gitSync" -}}
image: {{ .Values.policy.gitSync.image | quote }}
securityContext: {{- include "callability.containerSecurity" . | nindent 2 }}
env:
- {name: GITSYNC_REPO, value: {{ .Values.policy.gitSync.repository | quote }}}
- {name: GITSYNC_REF, value: {{ .Values.policy.gitSync.ref | quote }}}
- {name: GITSYNC_ROOT, value: /policy}
- {name: GITSYNC_LINK, value: current}
- {name: GITSYNC_PERIOD, value: {{ .Values.policy.gitSync.period | quote }}}
- {name: GITSYNC_DEPTH, value: "1"}
{{- if .Values.policy.gitSync.secret }}
- {name: GITSYNC_SSH_KEY_FILE, value: /etc/git-secret/ssh}
- {name: GITSYNC_SSH_KNOWN_HOSTS_FILE, value: /etc/git-secret/known_hosts}
{{- end }}
volumeMounts:
- {name: policy, mountPath: /policy}
- {name: tmp, mountPath: /tmp}
{{- if .Values.policy.gitSync.secret }}
- {name: git, mountPath: /etc/git-secret, readOnly: true}
{{- end }}
resources:
  requests: {cpu: 10m, memory: 32Mi}
  limits: {memory: 256Mi}
{{- end }}

{{- define "callability.probe" -}}
{{- if and .Values.insecure (not .Values.sidecar.enabled) (not .Values.tls.secret) }}
grpc: {port: {{ .Values.service.port }}}
{{- else if and .Values.tls.clientAuthoritySecret (not .Values.sidecar.enabled) }}
exec:
  command: [callability, healthcheck, --tls-certificate, /etc/callability/probe/tls.crt, --tls-key, /etc/callability/probe/tls.key, --timeout, "8"]
{{- else }}
exec: {command: [callability, healthcheck, --timeout, "8"]}
{{- end }}
{{- end }}
