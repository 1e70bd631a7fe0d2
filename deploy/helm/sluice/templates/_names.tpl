{{- define "sluice.image" -}}
{{ .root.Values.image.registry }}{{ .name }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
{{- end }}

{{- define "sluice.labels" -}}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{ include "sluice.selector" . }}
{{- end }}

{{- define "sluice.selector" -}}
app.kubernetes.io/name: sluice
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- with .pool }}
sluice/pool: {{ . }}
{{- end }}
{{- end }}

{{/* A pod of ours: nobody's, with a root that is read only. */}}
{{- define "sluice.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "sluice.containerSecurity" -}}
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
capabilities: { drop: [ALL] }
{{- end }}

{{- define "sluice.spread" -}}
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector: { matchLabels: {{ include "sluice.selector" . | fromYaml | toJson }} }
{{- end }}

{{- define "sluice.service" -}}
{{ .root.Release.Name }}-service{{ if ne .pool "default" }}-{{ .pool }}{{ end }}
{{- end }}

{{/* What a pool says, over what the pool `default` of the chart's own values says. */}}
{{- define "sluice.pool" -}}
{{- $chart := dict "image" "sluice-service" "models" list "settings" dict "replicas" 1 "resources" dict "nodeSelector" dict "tolerations" list "modelsVolume" dict "loadTimeoutSeconds" 600 "autoscaling" (dict "enabled" false "minReplicas" 1 "maxReplicas" 4 "waitingPerReplica" 4 "busyPercent" 70 "prometheus" "http://prometheus-operated.monitoring:9090") "inferencePool" (dict "enabled" false "extensionService" "") }}
{{- mergeOverwrite $chart (deepCopy .) | toYaml }}
{{- end }}
