{{- define "tidings.labels" -}}
app.kubernetes.io/name: tidings
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "tidings.selector" -}}
app.kubernetes.io/name: tidings
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tidings.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "tidings.secret" -}}
{{ required "existingSecret is missing: make a Secret with root-key and master-key first" .Values.existingSecret }}
{{- end }}

{{- /* Rights of every pod: none, and a root that cannot be written. */ -}}
{{- define "tidings.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "tidings.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{- define "tidings.env" -}}
- name: TIDINGS_HOST
  value: "0.0.0.0"
- name: TIDINGS_PORT
  value: "8080"
- name: TIDINGS_SMS
  value: {{ index .Values.settings "TIDINGS_SMS" | default "off" | quote }}
- name: TIDINGS_DRAIN_SECONDS
  value: {{ .Values.drainSeconds | quote }}
{{- if .Values.metrics.enabled }}
- name: TIDINGS_METRICS
  value: "0.0.0.0:{{ .Values.metrics.port }}"
{{- end }}
- name: TIDINGS_ROOT_KEY
  valueFrom: { secretKeyRef: { name: {{ include "tidings.secret" . }}, key: root-key } }
- name: TIDINGS_MASTER_KEY
  valueFrom: { secretKeyRef: { name: {{ include "tidings.secret" . }}, key: master-key } }
{{- if eq .Values.mode "fleet" }}
- name: TIDINGS_STORE
  value: dynamodb
- name: TIDINGS_BUS
  value: kafka
- name: TIDINGS_REGISTRY
  value: redis
{{- range $name := list "TIDINGS_DYNAMODB_REGION" "TIDINGS_KAFKA_BOOTSTRAP" "TIDINGS_REDIS_URL" }}
{{- $_ := required (printf "settings.%s is missing" $name) (index $.Values.settings $name) }}
{{- end }}
{{- range $name := list "kafka-password" "redis-password" }}
- name: TIDINGS_{{ $name | upper | replace "-" "_" }}
  valueFrom: { secretKeyRef: { name: {{ include "tidings.secret" $ }}, key: {{ $name }}, optional: true } }
{{- end }}
{{- end }}
{{- range $name, $value := omit .Values.settings "TIDINGS_SMS" }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}

{{- /* The container of a process: (dict "root" $ "arguments" list "resources" dict). */ -}}
{{- define "tidings.container" -}}
- name: tidings
  image: {{ include "tidings.image" .root }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  args: {{ toJson .arguments }}
  env: {{- include "tidings.env" .root | nindent 4 }}
  ports:
    - { name: http, containerPort: 8080 }
    {{- if .root.Values.metrics.enabled }}
    - { name: metrics, containerPort: {{ .root.Values.metrics.port }} }
    {{- end }}
  startupProbe:
    httpGet: { path: /readyz, port: http }
    periodSeconds: 2
    failureThreshold: 60
  readinessProbe:
    httpGet: { path: /readyz, port: http }
    periodSeconds: 5
  livenessProbe:
    httpGet: { path: /healthz, port: http }
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: 6
  resources: {{- toYaml .resources | nindent 4 }}
  securityContext: {{- include "tidings.containerSecurity" .root | nindent 4 }}
  volumeMounts:
    - { name: data, mountPath: /var/lib/tidings }
    - { name: tmp, mountPath: /tmp }
{{- end }}

{{- /* What all pods have besides their container and their data. */ -}}
{{- define "tidings.pod" -}}
serviceAccountName: {{ .Release.Name }}-tidings
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ add .Values.drainSeconds 20 }}
securityContext: {{- include "tidings.podSecurity" . | nindent 2 }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
